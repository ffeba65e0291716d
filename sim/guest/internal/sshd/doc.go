// Package sshd is OpenSSH: logins, commands and files over a connection, and host keys.
package sshd
