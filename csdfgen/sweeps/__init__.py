"""How are many plans made at once? `spec` lists the points, `point` plans one, `engines` distribute them, `cache` keeps
them, and `table` and `picture` show the results.
"""
