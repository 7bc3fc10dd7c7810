"""What every study is made of: cases, views, tables and the record of a run."""
