// Every page, in the order of the navigation. Another page is a module with a line here.
import { addPage } from './router.js';
import cluster from './pages/cluster.js';
import job from './pages/job.js';
import jobs from './pages/jobs.js';
import node from './pages/node.js';
import overview from './pages/overview.js';

[overview, cluster, node, jobs, job].forEach(addPage);
