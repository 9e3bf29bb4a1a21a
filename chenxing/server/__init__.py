"""The HTTP server: OpenAI's and llama-server's protocols over one engine. aiohttp is imported only from here."""
