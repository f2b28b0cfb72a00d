// Every page, in the order of the navigation. Another page is a module with a line here.
import { addPage } from './router.js';
import job from './pages/job.js';
import jobs from './pages/jobs.js';

[jobs, job].forEach(addPage);
