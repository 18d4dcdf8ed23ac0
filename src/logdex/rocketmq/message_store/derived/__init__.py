"""The derived files of an open store: ConsumeQueues, IndexFiles, the checkpoint, and the dispatch
that fills them."""
