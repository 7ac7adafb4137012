"""The wiring of settings to adapters. A command imports only the module that it needs."""
