package main

// The published sides. The app there was Rails 8 on Cloud Run with one virtual processor, https, and the real Cloud Storage. The figures
// are quoted beside ours and are no ratio to them.
const (
	publishedMount      = "published: Cloud Storage mount"
	publishedLitestream = "published: Litestream"
)

// publishedSides in the order in which they are shown.
var publishedSides = []string{publishedMount, publishedLitestream}

// publishedRow is users, and med, avg, p90, p95, min, max in milliseconds: medians of three runs of 120 s.
type publishedRow struct {
	Users                           int
	Med, Avg, P90, P95, Least, Most float64
}

var published = map[string][]publishedRow{
	publishedMount: {
		{2, 10.97, 16.79, 38.74, 42.62, 8.12, 629.35},
		{4, 18.29, 32.11, 61.5, 64.07, 7.81, 668.82},
		{6, 33.77, 49.3, 72.43, 74.95, 8.92, 685.2},
		{8, 73.2, 65.71, 83.05, 86.15, 8.59, 676.23},
		{10, 85.03, 83.1, 94.14, 97.75, 8.99, 722.75},
		{12, 94.21, 98.2, 104.83, 112.09, 8.59, 748.89},
		{14, 103.31, 114.14, 125.39, 149.31, 7.91, 769.1},
		{16, 114.58, 130.89, 158.2, 164.81, 7.97, 754.52},
		{18, 126.01, 146.7, 170.05, 176.23, 8.19, 783.91},
		{20, 164.94, 165.12, 184.68, 192, 8.32, 783.74},
	},
	publishedLitestream: {
		{2, 8.81, 10.14, 12.61, 18.49, 6.37, 101.62},
		{4, 11.14, 19.51, 52.09, 55.21, 6.41, 159.78},
		{6, 17.07, 28.63, 60.03, 62.92, 6.59, 169.82},
		{8, 25.45, 38.87, 66.63, 70.48, 6.48, 247.1},
		{10, 34.03, 47.36, 73.08, 77.27, 6.7, 200.26},
		{12, 68.5, 56.35, 79.55, 84.1, 6.49, 183.35},
		{14, 76.94, 67.46, 88.02, 93.16, 6.51, 219.32},
		{16, 83.6, 77, 94.66, 99.93, 6.63, 189.46},
		{18, 89.72, 85.77, 101.19, 107.72, 6.39, 215.69},
		{20, 95.24, 94.59, 106.96, 115.95, 6.34, 215.97},
	},
}
