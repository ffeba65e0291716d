// Package permission says what an API token of Proxmox VE may do, what it lacks, and the
// commands with which root grants it. It asks nobody: everything here is pure.
//
// A [Grant] is what is needed, a [Tree] what a token has; [Tree.Missing] is what lies between.
// [Roles] turns grants into roles, [TokenCommands] and [GrantCommands] into commands for root.
// [TagAccess] is which tags a token may set.
package permission
