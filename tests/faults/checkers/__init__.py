"""What the histories of all clients are compared with: ledgers of them, and what the service promises."""
