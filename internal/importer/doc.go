// Package importer writes a cluster.yaml from the inputs of other tools: variables of OpenTofu and
// Terraform, inventories of Ansible, dotenv files, and the nodes.yaml of templates of clusters.
//
// [Import] reads a file or a folder. Each value of its files has one fate, which [Result] tells: it is in the
// new file, a reference stands for it since it is a secret, homelab does the same without a setting, or it has
// no place, and why. Values of secrets are in no text that this package returns.
//
// Nothing is run: HCL that needs more than variables, locals and count, and Jinja beyond a name or an
// environment variable, counts as computed, and is told.
package importer
