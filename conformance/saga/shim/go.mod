// What lies here is no module of its own: scripts/dtmsuite.sh copies it over two packages of DTM's, dtmsvr and dtmsvr/storage/registry, in
// a copy of its module. This file keeps it out of ours.
module github.com/dtm-labs/dtm

go 1.26.0
