// Package apt installs and removes packages, as apt and dpkg do on Ubuntu and Debian.
package apt
