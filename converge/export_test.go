package converge

// For tests outside of the package.
var (
	Besides  = unlessContextError
	CutShort = cutShort
)
