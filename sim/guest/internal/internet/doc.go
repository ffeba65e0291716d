// Package internet is what machines can download from, small and made up.
package internet
