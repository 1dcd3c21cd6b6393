package disk

import "unsafe"

// BlockBytes is the unit of direct writes. Devices ask for their sector, of 512 or 4,096 bytes.
const BlockBytes = 4 << 10

// Blocks returns memory for n bytes that direct writes may use, with a capacity of whole blocks.
func Blocks(n int) []byte {
	whole := (n + BlockBytes - 1) &^ (BlockBytes - 1)
	b := make([]byte, whole+BlockBytes)
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (BlockBytes - 1) // large slices do not move
	return b[skip : skip+n : skip+whole]
}

// wholeBlocks reports whether a write may be direct.
func wholeBlocks(p []byte, off int64) bool {
	return len(p) > 0 && len(p)%BlockBytes == 0 && off%BlockBytes == 0 && uintptr(unsafe.Pointer(unsafe.SliceData(p)))%BlockBytes == 0
}
