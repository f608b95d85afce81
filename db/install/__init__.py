"""Installs a release: migrations, procedures, roles and their rights.

It imports no other subpackage. Begin with `procedures`, which installs those of a manifest.
"""
