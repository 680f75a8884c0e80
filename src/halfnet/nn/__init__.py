"""The layers. Their public names stand in `halfnet` itself."""
