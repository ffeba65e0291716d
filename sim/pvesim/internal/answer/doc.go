// Package answer is what a request of the API ends with: data of several kinds, or an
// error in Proxmox's words with its status.
package answer
