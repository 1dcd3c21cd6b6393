// Package hammer puts load on a transparency log and says how long each add took: writers that each keep one HTTP/1.1
// connection and send entry after entry, an observer that polls the checkpoint, and afterwards, if asked for, a check that the
// entries are where the log said they are. It works with any log that has Tessera's POST /add and the paths of C2SP tlog-tiles.
//
// Unlike Tessera's hammer it keeps the time of every single request, not of averages over intervals, so that its percentiles
// have tails; it is light enough to share a machine with the server; and it reads nothing while it writes but checkpoints,
// so that what is verified does not disturb what is measured. It is no verifier of whole logs: that is `holdfast tlog verify`.
package hammer
