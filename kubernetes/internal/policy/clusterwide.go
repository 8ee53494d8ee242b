package policy

import (
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/network-policy-api/apis/v1alpha1"
	"sigs.k8s.io/network-policy-api/apis/v1alpha2"
)

// Kinds of policies of administrators, which are for pods of any namespace, and how the API server calls them. The first is what became
// of the other two in v1alpha2 of the API.
const (
	clusterKind  = "ClusterNetworkPolicy"
	adminKind    = "AdminNetworkPolicy"
	baselineKind = "BaselineAdminNetworkPolicy"
)

var resources = map[string]schema.GroupVersionResource{
	clusterKind:  {Group: v1alpha2.GroupName, Version: "v1alpha2", Resource: "clusternetworkpolicies"},
	adminKind:    {Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "adminnetworkpolicies"},
	baselineKind: {Group: v1alpha1.GroupName, Version: "v1alpha1", Resource: "baselineadminnetworkpolicies"},
}

// Behind all that a ClusterNetworkPolicy can have: the one BaselineAdminNetworkPolicy is asked last.
const lastPriority = 1001

// clusterwide is a policy of an administrator, whatever its kind: what v1alpha2 says is all that the others can say, too.
type clusterwide struct {
	kind, name string
	uid        types.UID
	generation int64
	spec       v1alpha2.ClusterNetworkPolicySpec
	conditions []meta.Condition
}

// key is its kind and name: it has no namespace, which NetworkPolicies have.
func (p *clusterwide) key() types.NamespacedName { return clusterKey(p.kind, p.name) }

func clusterKey(kind, name string) types.NamespacedName {
	return types.NamespacedName{Name: kind + "/" + name}
}

// isClusterwide tells them from NetworkPolicies.
func isClusterwide(key types.NamespacedName) bool { return key.Namespace == "" }

// clusterwideOf reads an object of any of the kinds.
func clusterwideOf(object any) *clusterwide {
	of := func(kind string, about *meta.ObjectMeta, conditions []meta.Condition, spec v1alpha2.ClusterNetworkPolicySpec) *clusterwide {
		return &clusterwide{kind, about.Name, about.UID, about.Generation, spec, conditions}
	}
	switch object := object.(type) {
	case *v1alpha2.ClusterNetworkPolicy:
		return of(clusterKind, &object.ObjectMeta, object.Status.Conditions, object.Spec)
	case *v1alpha1.AdminNetworkPolicy:
		spec := v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.AdminTier, Priority: object.Spec.Priority, Subject: subject(object.Spec.Subject)}
		for _, rule := range object.Spec.Ingress {
			spec.Ingress = append(spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Name: rule.Name, Action: action(string(rule.Action)), From: senders(rule.From), Protocols: protocols(rule.Ports)})
		}
		for _, rule := range object.Spec.Egress {
			spec.Egress = append(spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Name: rule.Name, Action: action(string(rule.Action)), To: receivers(rule.To), Protocols: protocols(rule.Ports)})
		}
		return of(adminKind, &object.ObjectMeta, object.Status.Conditions, spec)
	case *v1alpha1.BaselineAdminNetworkPolicy:
		spec := v1alpha2.ClusterNetworkPolicySpec{Tier: v1alpha2.BaselineTier, Priority: lastPriority, Subject: subject(object.Spec.Subject)}
		for _, rule := range object.Spec.Ingress {
			spec.Ingress = append(spec.Ingress, v1alpha2.ClusterNetworkPolicyIngressRule{Name: rule.Name, Action: action(string(rule.Action)), From: senders(rule.From), Protocols: protocols(rule.Ports)})
		}
		for _, rule := range object.Spec.Egress {
			var to []v1alpha1.AdminNetworkPolicyEgressPeer
			for _, peer := range rule.To {
				to = append(to, v1alpha1.AdminNetworkPolicyEgressPeer{Namespaces: peer.Namespaces, Pods: peer.Pods, Nodes: peer.Nodes, Networks: peer.Networks})
			}
			spec.Egress = append(spec.Egress, v1alpha2.ClusterNetworkPolicyEgressRule{Name: rule.Name, Action: action(string(rule.Action)), To: receivers(to), Protocols: protocols(rule.Ports)})
		}
		return of(baselineKind, &object.ObjectMeta, object.Status.Conditions, spec)
	}
	return nil
}

// action is called Accept since v1alpha2; the others are called as they were.
func action(said string) v1alpha2.ClusterNetworkPolicyRuleAction {
	if said == string(v1alpha1.AdminNetworkPolicyRuleActionAllow) {
		return v1alpha2.ClusterNetworkPolicyRuleActionAccept
	}
	return v1alpha2.ClusterNetworkPolicyRuleAction(said)
}

func subject(said v1alpha1.AdminNetworkPolicySubject) v1alpha2.ClusterNetworkPolicySubject {
	return v1alpha2.ClusterNetworkPolicySubject{Namespaces: said.Namespaces, Pods: some(said.Pods)}
}

func some(pods *v1alpha1.NamespacedPod) *v1alpha2.NamespacedPod {
	if pods == nil {
		return nil
	}
	return &v1alpha2.NamespacedPod{NamespaceSelector: pods.NamespaceSelector, PodSelector: pods.PodSelector}
}

func senders(said []v1alpha1.AdminNetworkPolicyIngressPeer) (peers []v1alpha2.ClusterNetworkPolicyIngressPeer) {
	for _, peer := range said {
		peers = append(peers, v1alpha2.ClusterNetworkPolicyIngressPeer{Namespaces: peer.Namespaces, Pods: some(peer.Pods)})
	}
	return peers
}

func receivers(said []v1alpha1.AdminNetworkPolicyEgressPeer) (peers []v1alpha2.ClusterNetworkPolicyEgressPeer) {
	for _, peer := range said {
		made := v1alpha2.ClusterNetworkPolicyEgressPeer{Namespaces: peer.Namespaces, Pods: some(peer.Pods), Nodes: peer.Nodes}
		for _, network := range peer.Networks {
			made.Networks = append(made.Networks, v1alpha2.CIDR(network))
		}
		for _, name := range peer.DomainNames {
			made.DomainNames = append(made.DomainNames, v1alpha2.DomainName(name))
		}
		peers = append(peers, made)
	}
	return peers
}

// protocols are what v1alpha1 calls ports.
func protocols(said *[]v1alpha1.AdminNetworkPolicyPort) (all []v1alpha2.ClusterNetworkPolicyProtocol) {
	if said == nil {
		return nil
	}
	for _, port := range *said {
		made := v1alpha2.ClusterNetworkPolicyProtocol{}
		with := func(protocol string, port *v1alpha2.Port) {
			switch protocol {
			case "TCP", "":
				made.TCP = &v1alpha2.ClusterNetworkPolicyProtocolTCP{DestinationPort: port}
			case "UDP":
				made.UDP = &v1alpha2.ClusterNetworkPolicyProtocolUDP{DestinationPort: port}
			case "SCTP":
				made.SCTP = &v1alpha2.ClusterNetworkPolicyProtocolSCTP{DestinationPort: port}
			}
		}
		switch {
		case port.PortNumber != nil:
			with(string(port.PortNumber.Protocol), &v1alpha2.Port{Number: port.PortNumber.Port})
		case port.PortRange != nil:
			with(string(port.PortRange.Protocol), &v1alpha2.Port{Range: &v1alpha2.PortRange{Start: port.PortRange.Start, End: port.PortRange.End}})
		case port.NamedPort != nil:
			made.DestinationNamedPort = *port.NamedPort
		}
		all = append(all, made)
	}
	return all
}
