package world

// Pool is a named group of machines; who is in it stands in the machines.
type Pool struct {
	Comment  string
	Storages []string
	Absent   map[int]bool // machines that are members and that there are none of
}

// MemberOf returns the pool that a VMID is in, of a machine that there is or not.
func (s *State) MemberOf(vmid int) string {
	if v := s.VMs[vmid]; v != nil {
		return v.Pool
	}
	for id, p := range s.Pools {
		if p.Absent[vmid] {
			return id
		}
	}
	return ""
}
