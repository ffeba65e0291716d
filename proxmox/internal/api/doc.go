// Package api sends requests to Proxmox VE and returns their results: TLS, token and ticket,
// repeated requests, tasks, errors and what to do about them. It knows paths and parameters,
// and nothing of what VMs are: that is package proxmox, whose Client has a [Client] of this package.
//
// [Client.Get] asks, and [GetShared] shares the answer with all who ask at that time. [Client.Call]
// changes something, [Client.Do] does so by a task and waits for its end, and [Client.Retry]
// begins again where it is not known whether work was done. Only GETs are ever sent twice.
//
// A failure is an [Error] or, after a task, a [TaskError]. [ClassOf] says what one may do about
// it, and the functions that begin with Said which of Proxmox's sentences it is: nothing else
// looks into Proxmox's words.
//
// It uses github.com/luthermonson/go-proxmox as transport of requests; no type of that package
// appears here, and none of its waits, retries, uploads or logs are used.
package api
