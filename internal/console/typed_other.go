//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd || windows)

package console

// dropTyped does nothing: it is not known how this system does it.
func dropTyped(int) {}
