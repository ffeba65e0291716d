// Package traffic is the network and the storage that pods of the lab share: who answers at
// a pod's, a Service's or a load balancer's address, and what has been written into a volume.
package traffic
