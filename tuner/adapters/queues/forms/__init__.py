"""Message formats of each queue library, in Redis and in RabbitMQ."""
