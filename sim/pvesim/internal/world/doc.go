// Package world holds all that there is of a simulated cluster: nodes, machines,
// storages, volumes, tasks, locks and rights. It knows no endpoint of the API; the
// packages above it have those, by domain, and [Call] is a request on its way to one.
//
// Everything happens with the lock of [State] held. Code releases it only while it waits
// ([Worker.Sleep], [Worker.Lock]) or asks a guest ([State.WithoutLock]).
package world
