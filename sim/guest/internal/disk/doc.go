// Package disk is a machine's files, as each of its users sees them and may change them.
//
// A [Disk] is a tree with owners, modes and links, and with dpkg's database. A [View] is
// what one [User] sees of the disks that are mounted. Accounts and sudo's rules are read
// from the files themselves, and a program is a file that says which one it stands for.
package disk
