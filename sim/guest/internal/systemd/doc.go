// Package systemd starts units, restarts what says so, and keeps and shows journals.
package systemd
