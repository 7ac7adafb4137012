import os

from huey import RedisHuey

huey = RedisHuey("jobs", url=os.environ["REDIS_URL"])


@huey.task()
def count(n):
    return sum(range(n))
