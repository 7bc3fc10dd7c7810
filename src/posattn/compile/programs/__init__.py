"""Programs that come with posattn, and what they are built from."""
