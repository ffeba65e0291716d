package console

import "golang.org/x/sys/windows"

// dropTyped throws away what was typed on a console and not read yet.
func dropTyped(fd int) { _ = windows.FlushConsoleInputBuffer(windows.Handle(fd)) }
