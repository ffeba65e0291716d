// Package traffic is the network and the storage that pods of the lab share: what answers at
// the address of a pod, a Service or a load balancer, and the contents of volumes.
package traffic
