"""A directory that a broker wrote, as a table of Spark: a query, Parquet, and a stream that follows
a store while it is written.

scripts/demo prints this program and runs it in the folder with `store`. Run it with the Python of
an environment that has `logdex[spark]`.
"""

from pathlib import Path

import logdex.spark
from logdex.rocketmq import Message, MessageStore
from logdex.spark.session import session

here = Path.cwd()
with session("local[2]") as spark:
    logdex.spark.register(spark)

    orders = spark.read.format("rocketmq_store").option("topic", "orders").load(f"{here}/store")
    counts = orders.groupBy("tags").count().orderBy("tags").collect()
    print("as a DataFrame:", {row.tags: row["count"] for row in counts})

    orders.select("queueId", "queueOffset", "tags", "body").write.parquet(f"{here}/orders.parquet")
    print("as Parquet:", spark.read.parquet(f"{here}/orders.parquet").count(), "rows")

    with MessageStore.open(here / "growing") as store:
        store.create_topic("clicks", 4)
        clicks = spark.readStream.format("rocketmq_store").option("startingOffsets", "earliest")
        query = (
            clicks.load(f"{here}/growing")
            .selectExpr("queueId", "queueOffset", "CAST(body AS STRING) AS number")
            .writeStream.format("parquet")
            .options(path=f"{here}/clicks.parquet", checkpointLocation=f"{here}/checkpoint")
            .start()
        )
        for number in range(4000):
            store.put_message(Message("clicks", b"%d" % number))
            if number % 1000 == 999:
                query.processAllAvailable()  # the stream has read what is there by now
        query.stop()
    rows = spark.read.parquet(f"{here}/clicks.parquet")
    print("as a stream:", rows.count(), "rows,", rows.select("number").distinct().count(), "numbers")
