import os

GREETING = os.environ["GREETING"].encode()


async def app(scope, receive, send):
    if scope["type"] != "http":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": GREETING})
