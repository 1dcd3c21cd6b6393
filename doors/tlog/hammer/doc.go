// Package hammer puts load on a transparency log and times each add. Writers keep one HTTP/1.1 connection each and send entry after entry,
// and an observer polls the checkpoint. Afterwards, if asked for, it checks that the entries are where the log said. It works with any log
// that has Tessera's POST /add and the paths of C2SP tlog-tiles.
//
// Unlike Tessera's hammer it keeps the time of every single request, not of averages over intervals, so that its percentiles have tails. It
// is light enough to share a machine with the server. While it writes it reads only checkpoints, so that verification does not disturb the
// measurement. It is no verifier of whole logs: that is `holdfast tlog verify`.
package hammer
