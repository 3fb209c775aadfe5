"""An HTTP server over one loaded model, in the shape of OpenAI's API."""
