package members

// Turns take nodes down and up again, one at a time.
type Turns struct {
	*Kubernetes

	// restarting is held by the one node that goes down and comes up again.
	restarting chan struct{}
}

// GPUs are what nodes offer to Kubernetes.
type GPUs struct{ *Turns }

// Members are the machines of a cluster as members of its K3s. They are safe for concurrent
// use.
type Members struct {
	*GPUs
	saved saved
}

// New makes Members.
func New(c Config) *Members {
	turns := &Turns{Kubernetes: &Kubernetes{Config: c}, restarting: make(chan struct{}, 1)}
	return &Members{GPUs: &GPUs{turns}}
}
