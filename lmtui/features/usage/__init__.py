"""What models cost: tokens, requests and time by day, model, folder and session."""
