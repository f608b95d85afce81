"""What `make docs` generates when it builds the site."""
