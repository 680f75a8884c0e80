"""The lab: the paper's data sets, training runs, tables and figures."""
