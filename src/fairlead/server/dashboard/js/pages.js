// Every page, in the order of the navigation. Another page is a module with a line here.
import { addPage } from './router.js';
import cluster from './pages/cluster.js';
import job from './pages/job.js';
import jobs from './pages/jobs.js';
import node from './pages/node.js';
import overview from './pages/overview.js';
import studio from './pages/studio.js';
import studioRun from './pages/studio_run.js';
import whatif from './pages/whatif.js';

[overview, cluster, node, jobs, job, whatif, studio, studioRun].forEach(addPage);
