"""The one training engine: networks side by side, their optimizer, their batches, their losses."""
