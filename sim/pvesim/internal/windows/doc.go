// Package windows plays a VM in which Windows is installed from its disc: the firmware, the boot loader that waits for a
// key, Windows Setup with its answer file, and the system that has a guest agent afterwards. It has no programs, and
// nobody can log in.
//
// A disc is one of Windows if it has bootmgr.efi in its root folder. Its images are the lines of install.wim there, which a
// real disc has in the folder sources and in a format of Microsoft's.
package windows
