package engine

// plans keeps analysed plans.
type plans struct{}
