package kv

// Held returns the bytes that clients have drawn at the moment (port.Port.Held). Any goroutine.
func (d *Door) Held() (requests, calls, answers int64) { return d.port.Held() }
