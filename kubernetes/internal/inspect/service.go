package inspect

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	api "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// named is a Service as users write it.
type named struct {
	namespace, name string
	// Port of it, by number or name; empty: not said.
	port string
}

func (n named) String() string { return "Service " + n.namespace + "/" + n.name }

// serviceNamed reads "svc/name", "svc/namespace/name" and either with a port behind a colon, and tells whether it is such a one.
func serviceNamed(text string) (named, bool) {
	kind, rest, _ := strings.Cut(text, "/")
	if !slices.Contains([]string{"svc", "service", "services"}, kind) || rest == "" {
		return named{}, false
	}
	rest, port, _ := strings.Cut(rest, ":")
	namespace, name, is := strings.Cut(rest, "/")
	if !is {
		namespace, name = core.NamespaceDefault, rest
	}
	return named{namespace, name, port}, true
}

// behind is a Service with its endpoints.
type behind struct {
	named
	service *core.Service
	slices  []discovery.EndpointSlice
	// outside: it is asked by somebody outside of the cluster, or of the node that answers.
	outside bool
	// asked is the port of it that is meant, once that is known.
	asked *core.ServicePort
	// How it is asked, where that is told: " at its node port", and what besides.
	how string
	// Nodes of the cluster.
	nodes []Node
}

// key is "namespace/name".
func (b behind) key() string { return b.namespace + "/" + b.name }

// String is the Service, with its port if that is known.
func (b behind) String() string {
	text := b.named.String()
	if b.asked != nil {
		text += ", " + shown(b.asked)
	}
	return text + b.how
}

// behind finds them.
func (c *Cluster) behind(ctx context.Context, asked named) (behind, error) {
	service, err := c.client.Services(asked.namespace).Get(ctx, asked.name, meta.GetOptions{})
	if api.IsNotFound(err) {
		return behind{}, fmt.Errorf("there is no Service %s in namespace %s", asked.name, asked.namespace)
	}
	if err != nil {
		return behind{}, err
	}
	endpoints, err := c.discovery.EndpointSlices(asked.namespace).List(ctx, meta.ListOptions{LabelSelector: discovery.LabelServiceName + "=" + asked.name})
	if err != nil {
		return behind{}, err
	}
	return behind{named: asked, service: service, slices: endpoints.Items}, nil
}

// choose finds the port that is meant: by its number or name, or the only one of the protocol.
func (b behind) choose(protocol string) (*core.ServicePort, error) {
	protocol, number, _ := strings.Cut(protocol, "/")
	if number != "" && b.port != "" && number != b.port {
		return nil, fmt.Errorf("%s is asked at port %s or %s? Say one", b, b.port, number)
	}
	number = cmp.Or(number, b.port)
	var meant, all []string
	var found *core.ServicePort
	for i := range b.service.Spec.Ports {
		port := &b.service.Spec.Ports[i]
		all = append(all, shown(port))
		if is := number == "" || number == port.Name || number == strconv.Itoa(int(port.Port)); is && (protocol == "" || strings.EqualFold(protocol, string(protocolOf(port)))) {
			found, meant = port, append(meant, shown(port))
		}
	}
	switch len(meant) {
	case 1:
		return found, nil
	case 0:
		return nil, fmt.Errorf("%s has no such port; it has: %s", b, cmp.Or(strings.Join(all, ", "), "none"))
	}
	return nil, fmt.Errorf("%s is asked at which port? Say one of these: %s", b, strings.Join(meant, ", "))
}

func protocolOf(port *core.ServicePort) core.Protocol {
	return cmp.Or(port.Protocol, core.ProtocolTCP)
}

// shown is a port as it is asked for: "tcp/80 (http)".
func shown(port *core.ServicePort) string {
	text := strings.ToLower(string(protocolOf(port))) + "/" + strconv.Itoa(int(port.Port))
	if port.Name != "" {
		text += " (" + port.Name + ")"
	}
	return text
}

// portsOf are the numbers that a Service's port has in a slice.
func portsOf(slice discovery.EndpointSlice, port *core.ServicePort) (numbers []uint16) {
	for _, entry := range slice.Ports {
		same := cmp.Or(valueOf(entry.Protocol), core.ProtocolTCP) == protocolOf(port) && valueOf(entry.Name) == port.Name
		if same && entry.Port != nil {
			numbers = append(numbers, uint16(*entry.Port))
		}
	}
	return numbers
}

// nodeOf is the node on which an endpoint is; empty: it isn't known.
func (b behind) nodeOf(address netip.Addr) string {
	for _, slice := range b.slices {
		for _, endpoint := range slice.Endpoints {
			if endpoint.NodeName != nil && slices.Contains(endpoint.Addresses, address.String()) {
				return *endpoint.NodeName
			}
		}
	}
	return ""
}

func valueOf[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}
