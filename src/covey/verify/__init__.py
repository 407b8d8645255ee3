"""Every promise of a model, checked on traces, on Spark.

    verdicts = check(open_session().createDataFrame(read_trace("out")))

`group`, `order`, `kernel` and the modules of the models run where Spark runs them; `check` puts together what they
find.
"""
