// The load of the published experiment: each virtual user posts again as soon as it was answered.
import http from 'k6/http';
import { check } from 'k6';

export const options = {
  scenarios: { count: { executor: 'constant-vus', vus: Number(__ENV.USERS), duration: __ENV.DURATION, gracefulStop: '5s' } },
  summaryTrendStats: ['med', 'avg', 'p(90)', 'p(95)', 'min', 'max'],
  discardResponseBodies: true,
};

export default function () {
  check(http.post(__ENV.URL), { 'answered 200': (r) => r.status === 200 });
}

export function handleSummary(data) {
  return { [__ENV.OUT]: JSON.stringify(data.metrics) };
}
