package converge

// For tests outside of the package.
var (
	Besides  = besides
	CutShort = cutShort
)
