package agent

import (
	"fmt"
	"net/netip"

	"google.golang.org/grpc/codes"
	core "k8s.io/api/core/v1"

	agentv1 "quiver/kubernetes/internal/api/agentv1"
	"quiver/kubernetes/internal/attachment"
	"quiver/kubernetes/internal/service"
)

var protocolsOfPorts = map[string]core.Protocol{"tcp": core.ProtocolTCP, "udp": core.ProtocolUDP, "sctp": core.ProtocolSCTP}

// hostPorts reads what ports of the node a pod asks for.
func hostPorts(asked []*agentv1.HostPort) (ports []attachment.HostPort, err error) {
	for _, one := range asked {
		if protocolsOfPorts[one.Protocol] == "" {
			return nil, fmt.Errorf("host port %d: %q is no protocol that has any: tcp, udp, sctp", one.Port, one.Protocol)
		}
		if one.Port < 1 || one.Port > 65535 || one.PodPort < 1 || one.PodPort > 65535 {
			return nil, fmt.Errorf("host port %d to port %d of the pod: ports are from 1 to 65535", one.Port, one.PodPort)
		}
		port := attachment.HostPort{Protocol: one.Protocol, Port: uint16(one.Port), PodPort: uint16(one.PodPort)}
		if one.Address != "" {
			if port.Address, err = netip.ParseAddr(one.Address); err != nil {
				return nil, fmt.Errorf("host port %d: %q is no IP address", one.Port, one.Address)
			}
			port.Address = port.Address.Unmap()
		}
		ports = append(ports, port)
	}
	return ports, nil
}

// claim takes the node's ports for a pod, if nobody else has them.
func (a *Agent) claim(record *attachment.Record, asked []*agentv1.HostPort) error {
	if len(asked) == 0 {
		return nil
	}
	if a.services == nil {
		return failure(codes.InvalidArgument, "let the agent serve Services (in a cluster: --services), or have another plugin map ports: portmap",
			"%s asks for host ports, and this agent serves no Services", record.Pod())
	}
	ports, err := hostPorts(asked)
	if err != nil {
		return failure(codes.InvalidArgument, "correct the pod's hostPort, containerPort, hostIP or protocol", "%s: %v", record.Pod(), err)
	}
	for i, port := range ports {
		for _, other := range ports[:i] {
			if port.Overlaps(other) {
				return failure(codes.InvalidArgument, "leave one out", "%s asks for host port %s twice", record.Pod(), port)
			}
		}
	}
	for _, other := range a.store.All() {
		for _, taken := range other.HostPorts {
			for _, port := range ports {
				if port.Overlaps(taken) {
					// The other one may be about to go.
					return failure(codes.FailedPrecondition, "take another host port or host IP, or wait until the other pod is gone", "%s: host port %s is that of %s", record.Pod(), port, other.Pod())
				}
			}
		}
	}
	record.HostPorts = ports
	return nil
}

// HostPorts are the pods of this node to which ports of the node lead.
func (a *Agent) HostPorts() (all []service.Pod) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for _, record := range a.store.All() {
		if len(record.HostPorts) == 0 {
			continue
		}
		pod := service.Pod{Attachment: record.Key(), Name: podOf(record), UID: record.PodUID, Addresses: record.Addresses}
		for _, port := range record.HostPorts {
			pod.Ports = append(pod.Ports, service.PodPort{Protocol: protocolsOfPorts[port.Protocol], Node: port.Address, Port: port.Port, Target: port.PodPort})
		}
		all = append(all, pod)
	}
	return all
}

// ported tells who keeps Services that a pod's host ports have come or gone.
func (a *Agent) ported(record *attachment.Record) {
	if len(record.HostPorts) > 0 && a.services != nil {
		a.services.Wake()
	}
}
