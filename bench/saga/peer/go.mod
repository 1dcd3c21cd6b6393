module github.com/holdfastdb/holdfast/bench/saga/peer

go 1.26.0

require github.com/dtm-labs/dtm v1.19.0
