"""The description of the API for machines: /openapi.json, made from the structs of requests and answers."""
